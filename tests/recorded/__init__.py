"""Public calls with the answers they gave, so that the package can be taken apart and put together again."""
