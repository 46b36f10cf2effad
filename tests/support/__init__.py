"""Shared by all tests: ``from support.same import same``.

    engines     put a mapping of columns into every frame library and engine
    same        assert that two results, tables or arrays have the same numbers
    tables      small tables for several tests
    sampling    the distance of a sample from the truth, in standard errors
    fakes       made-up results with hostile labels, for tests of report, audit, command line and browser
    data        the folder of public datasets

Simulated populations with known truth are in `isonomy.simulate` and `studies.designs`.
"""
