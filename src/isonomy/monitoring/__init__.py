"""Monitoring: evidence about batches of decisions that holds however often somebody looks."""

from isonomy.monitoring.monitor import Monitor, MonitorResult, mixture, monitor

__all__ = ["Monitor", "MonitorResult", "mixture", "monitor"]
