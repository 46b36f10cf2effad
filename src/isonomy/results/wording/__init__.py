"""Every sentence isonomy says, so that a lawyer or a translator can read them all in one folder.

`words` holds what all methods share; each method has a file of its own. No sentence says that a model is fair,
unbiased or fixed: a result shows a violation, shows that a disparity lies within a tolerance, or is inconclusive.
"""
