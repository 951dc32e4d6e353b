"""Every table and figure of the Sparse-CHMM paper (Li et al. 2022) from the data at hand."""
