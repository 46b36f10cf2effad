"""The long simulations: one script per method, each of which writes its page of docs/validity.

    python -m studies.groups                          every line of the page, as many tables as it asks for
    python -m studies.groups --tables 50 --only size  a quick look at the lines whose name holds "size"

See `studies.lines`.
"""
