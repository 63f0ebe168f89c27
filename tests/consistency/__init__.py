"""Every closed epoch of random pipelines against a batch engine over the admitted prefix."""
