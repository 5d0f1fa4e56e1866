-- cli_filter.lua: to /etc/slurm on every host where sbatch, salloc or srun runs; or, where the site
-- has one, call mirage.NAME from its functions as here. It loads Mirage's part, and where that is
-- absent or broken it does nothing: sbatch itself fails only if *this* file is absent or broken.
local HOOKS = "/opt/mirage/slurm_plugin/hooks"

local loaded, mirage = pcall(loadfile(HOOKS .. "/mirage_cli.lua"), HOOKS)
if not loaded or type(mirage) ~= "table" then
  mirage = {}
end

local function tell(name, ...)
  pcall(function(...) mirage[name](...) end, ...)
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options)
  return tell("setup_defaults", options)
end

function slurm_cli_pre_submit(options, offset)
  return tell("pre_submit", options, offset)
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return tell("post_submit", offset, job_id)
end

return slurm.SUCCESS
