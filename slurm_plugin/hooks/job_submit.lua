-- job_submit.lua: copy this file to /etc/slurm on the controllers. If the site has such a file
-- already, call mirage.submit from its function as below. This file loads Mirage's part
-- (mirage_submit.lua). If Mirage's part is absent or broken, every job passes. Slurm loads the script
-- again when *this* file is newer: touch this file after an upgrade of Mirage.
local HOOKS = "/opt/mirage/slurm_plugin/hooks"

local loaded, mirage = pcall(loadfile(HOOKS .. "/mirage_submit.lua"))
if not loaded or type(mirage) ~= "table" then
  mirage = {}
end

function slurm_job_submit(job, partitions, submit_uid)
  local has_answer, refusal = pcall(function() return mirage.submit(job) end)
  if has_answer and type(refusal) == "string" then
    slurm.log_user("mirage: %s", refusal)
    return slurm.ERROR
  end
  return slurm.SUCCESS
end

-- Slurm demands this function of each job_submit.lua.
function slurm_job_modify(job, record, partitions, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
