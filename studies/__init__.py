"""The long simulations: one script per method, each of which writes its page of docs/validity.

    python -m studies.likelihood                          every line of the page, as many tables as it asks for
    python -m studies.likelihood --tables 50 --only size  a quick look at the lines whose name holds "size"

See `studies.lines`.
"""
