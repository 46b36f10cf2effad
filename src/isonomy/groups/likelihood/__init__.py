"""The likelihood ratios behind `flag` and `certify`: arrays in, arrays out.

means, moments      the empirical likelihood of a group's mean, for many groups at once
profile, euclid     of a disparity, the reference estimated too; its Euclidean form
overlap             of a disparity whose reference shares some of the group's rows
disparity           hypotheses about many disparities, and their intervals
joint, blocks       of several disparities at once: in general, and where groups are disjoint
lines, region       the rows behind a joint test, and the test at any disparities
correction          small samples
strata, accounted   groups compared within strata, and what these account for
planning            power and numbers of rows
"""
