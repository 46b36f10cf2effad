"""The mathematics of group errors of predicted effects: arrays in, arrays out.

moments     rows added up, means and covariances of each arm, smooth functions of them, the bootstrap
collapse    predicted effects of rows to the predicted effect of a group; adjustment of arm means for covariates
errors      errors of groups and of their rests, with weights, clusters, propensities and strata
events      the same from the law of counts, if events are few; the choice between the two
shrinkage   how much of an error to subtract; corrections found on one half of the rows and judged on the other
"""
