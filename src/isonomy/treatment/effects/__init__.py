"""The mathematics of group errors of predicted effects: arrays in, arrays out.

moments     columns of a row, their means and covariances in each arm of each group
sums        rows and cells added up to what moments are made of
smooth      functions of arm means with their gradient
collapse    predicted effects of rows to the predicted effect of a group
adjust      covariates: least squares within arms, or cross-fitted predictions
ratio       ratios of means: tests, intervals by inversion, the standardised rest, differences
events      the same from the law of counts, where events are few
errors      errors of groups and of their rests
resample    the bootstrap, from sums or from rows
borrow      errors of many groups shrunk towards their common mean; the test that all are equal
planning    rows that a test of bias needs
price       what a correction costs in the ranking of persons
shrinkage   how much of an error to subtract, and the risk of each answer
heldout     corrections found on one half of the rows and judged on the other
density     kernel densities of what remains
models      predicted effects of any fitted model
"""
