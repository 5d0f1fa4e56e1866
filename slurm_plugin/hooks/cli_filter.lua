-- cli_filter.lua: copy this file to /etc/slurm on every host where sbatch, salloc or srun runs. If
-- the site has such a file already, call mirage.NAME from its functions as below. This file loads
-- Mirage's part (mirage_cli.lua). If Mirage's part is absent or broken, nothing happens. sbatch fails
-- only if *this* file is absent or broken.
local HOOKS = "/opt/mirage/slurm_plugin/hooks"

local loaded, mirage = pcall(loadfile(HOOKS .. "/mirage_cli.lua"), HOOKS)
if not loaded or type(mirage) ~= "table" then
  mirage = {}
end

local function call_mirage(name, ...)
  pcall(function(...) mirage[name](...) end, ...)
  return slurm.SUCCESS
end

function slurm_cli_setup_defaults(options)
  return call_mirage("setup_defaults", options)
end

function slurm_cli_pre_submit(options, offset)
  return call_mirage("pre_submit", options, offset)
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return call_mirage("post_submit", offset, job_id)
end

return slurm.SUCCESS
