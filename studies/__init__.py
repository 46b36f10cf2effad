"""The long simulations: one script per topic, which writes a page of tables, for example docs/groups/simulations.md.

    python -m studies.groups                          every line of the page, with the full number of tables
    python -m studies.groups --tables 50 --only size  a quick look at the lines whose name contains "size"

See `studies.lines`.
"""
