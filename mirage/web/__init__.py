"""The pages of the dashboard: HTML rendered on the server, a stylesheet and one small script."""
