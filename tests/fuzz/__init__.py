"""Hostile calls: drawn tables, names, types and arguments for every public function."""
