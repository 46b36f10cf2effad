"""isonomy inside other tools: scikit-learn scorers, test suites, MLflow."""
