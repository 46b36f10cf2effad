"""The likelihood ratios behind `flag` and `certify`: arrays in, arrays out.

means                 the empirical likelihood of a group's mean, for many groups at once, on any scale
profile               a disparity with an estimated reference; Euclidean, corrected and adjusted forms
overlap               a disparity from a reference that shares rows with the group; standardized differences
strata                disparities within strata, and how much these account for
lines                 the rows of a test
comparison            the likelihoods of a call's groups; all groups of all metrics as one family
joint, region         several disparities at once, the region of those that fit the data, and its corrections
"""
