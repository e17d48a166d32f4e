"""Taylor mode: functions of truncated power series."""
