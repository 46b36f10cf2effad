"""The mathematics of predictive rate parity on arrays: kernels, local polynomials, sums by user, bands, maps."""
