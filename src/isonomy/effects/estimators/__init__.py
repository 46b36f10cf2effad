"""The mathematics of group errors of predicted effects: arrays in, arrays out.

moments     rows added up, means and covariances of each arm, smooth functions of them, the bootstrap
collapse    predicted effects of rows to the predicted effect of a group; adjustment of arm means for covariates
ratio       ratios of means: tests, intervals by inversion, the standardized rest, differences
errors      errors of groups and of their rests
events      the same from the law of counts, if events are few; the choice between the two
designs     weights, clusters, propensities and strata
shrinkage   how much of an error to subtract, and the risk of each answer
heldout     corrections found on one half of the rows and judged on the other
"""
