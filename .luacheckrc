-- Slurm loads the hooks into the Lua that it was built with, 5.1 to 5.4: only what all of them have.
std = "min"
max_line_length = 110
self = false
files["slurm_plugin/hooks"] = {
  read_globals = { "slurm" },
}
-- Slurm calls these by their names, with all their arguments.
files["slurm_plugin/hooks/cli_filter.lua"] = {
  read_globals = { "slurm" },
  globals = { "slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit" },
  unused_args = false,
}
files["slurm_plugin/hooks/job_submit.lua"] = {
  read_globals = { "slurm" },
  globals = { "slurm_job_submit", "slurm_job_modify" },
  unused_args = false,
}
