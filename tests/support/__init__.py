"""What the tests share, each thing written once. Every test can say ``from support.same import same``.

    engines     one mapping of columns into every frame library and engine
    same        are two results, tables or arrays the same numbers?
    tables      the small tables that several tests start from
    sampling    how far a sample lies from the truth, in standard errors
    fakes       made-up results with hostile labels, for report, audit, command line and browser
    data        the folder of public datasets

Simulated populations with known truth are in `isonomy.simulate` and `studies.designs`.
"""
