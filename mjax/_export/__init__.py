"""Exported programs: functions as bytes that other processes, machines and releases run."""
