-- mirage_cli.lua: chains for those who have no wrapper on PATH, by cli_filter/lua (Lua 5.1 to 5.4).
--
-- A filter cannot change the script, and each job of a chain needs a changed script (the carrier). If
-- a call of sbatch asks for a chain, this filter therefore runs the call again through the wrapper
-- (mirage-rerun). The wrapper submits and registers the chain, and this sbatch ends with the wrapper's
-- exit code. Only the path of this directory and a number reach a shell: mirage-rerun reads the words
-- of sbatch from /proc.
local hooks = ...
local PYTHON = "/usr/bin/python3"
local RERUN = hooks .. "/mirage-rerun"
local HEAD_BYTES = 65536
local ID = string.rep("[0-9a-hjkmnp-tv-z]", 20)

local begun, quiet = false, false
local why -- the reason if a call asked for a chain and got none

local function read(path, bytes)
  local file = io.open(path, "rb")
  local text = file and file:read(bytes or 1048576) or ""
  if file then
    file:close()
  end
  return text
end

local function words_of(process)
  local text, words, at = read("/proc/" .. process .. "/cmdline"), {}, 1
  while true do
    local nul = string.find(text, "\0", at, true)
    if not nul then
      return words
    end
    words[#words + 1] = string.sub(text, at, nul - 1)
    at = nul + 1
  end
end

local function parent_of(process)
  return string.match(read("/proc/" .. process .. "/stat", 4096), ".*%) %S (%d+)")
end

local function own_pid()
  return string.match(read("/proc/self/stat", 4096), "^(%d+) ")
end

local function is_set(name)
  local value = os.getenv(name)
  return value ~= nil and value ~= ""
end

-- Inside a link the chain's own script asks for no chain but must submit nothing: the wrapper decides.
local function maybe_in_a_link()
  return is_set("MIRAGE_LINK") and is_set("MIRAGE_DIR") and is_set("SLURM_JOB_ID")
end

-- Mirage's part of a comment is a word mirage:NAME=...; the wrapper knows the names.
local function asks(text)
  return string.find(" " .. text, "%smirage:%l[%l-]*[=,]") ~= nil
    or string.find(" " .. text .. " ", "%smirage:never%-overlap%s") ~= nil
end

local function asks_before_the_script_is_read(words)
  for i = 2, #words do
    if string.find(words[i], "^%-%-mirage%-") or asks(string.gsub(words[i], "^%-%-comment=", "")) then
      return true
    end
  end
  return is_set("MIRAGE_CHAIN") or is_set("MIRAGE_TOTAL") or maybe_in_a_link()
end

-- Has the wrapper already handled this call? Then it must not be called again, for ever.
local function within_wrapper(words)
  for i = 2, #words do
    -- A link's carrier submits the next link with this mark, without a link's variables. A script may
    -- use the mark too, but it has the variables.
    if string.find(words[i], "^mirage:" .. ID .. ":%d+$") and not maybe_in_a_link() then
      return true
    end
  end
  local pid = own_pid()
  local mark = string.match(os.getenv("SLURM_MIRAGE_PID") or "", "^%d+") -- set by the SPANK plugin
  for generation = 0, 3 do
    if generation < 2 and mark == pid then
      return true
    end
    for _, word in ipairs(generation > 0 and words_of(pid) or {}) do
      if word == RERUN then
        return true
      end
    end
    pid = parent_of(pid)
    if not pid or pid == "0" then
      return false
    end
  end
  return false
end

-- Do a script's leading comment lines ask for a chain? Those of a carrier do not.
local function script_asks(head)
  for line in string.gmatch(head, "[^\n]*") do
    if string.find(line, "^# mirage carrier ") then
      return false
    elseif string.find(line, "^#MIRAGE%s") then
      return true
    elseif not string.find(line, "^%s*#") and string.find(line, "%S") then
      return false
    end
  end
  return false
end

-- Is standard input a file? sbatch has read it by now, so its position is not 0; a pipe has none.
local function stdin_is_a_file()
  local at = string.match(read("/proc/self/fdinfo/0", 4096), "pos:%s*(%d+)")
  return at ~= nil and at ~= "0"
end

local function exit_code(status, how, number)
  if type(status) ~= "number" then -- Lua 5.2 and newer
    return how == "signal" and 128 + number or number
  elseif status >= 256 then
    return math.floor(status / 256) % 256
  end
  return status == 0 and 0 or 128 + status % 128
end

local function usable()
  if not string.find(RERUN, "^/[%w/._+-]+$") then
    return false
  end
  for _, path in ipairs({ PYTHON, RERUN }) do
    local file = io.open(path, "rb")
    if not file then
      return false
    end
    file:close()
  end
  return true
end

-- Run the call again through the wrapper, and exit. This returns only if nothing was run.
local function rerun(words, late)
  if (is_set("MIRAGE_DISABLE") and os.getenv("MIRAGE_DISABLE") ~= "0") or within_wrapper(words) then
    return
  end
  if not usable() then
    why = "the wrapper was not found beside " .. string.gsub(hooks, "[^%w/._+-]", "?")
    return
  end
  local command = string.format("exec %s -IS %s %d %s", PYTHON, RERUN, own_pid(), late)
  local status, how, number = os.execute(command)
  if status == -1 then
    why = "the wrapper could not be started"
    return
  end
  os.exit(exit_code(status, how, number))
end

local mirage = {}

-- sbatch calls this first of all, before its options and its script are read, and then for each
-- component of the job; Slurm 22.05 does not say which call it is.
function mirage.setup_defaults(options)
  if begun or options["type"] ~= "sbatch" then
    return
  end
  begun = true
  local words = words_of("self")
  if asks_before_the_script_is_read(words) then
    rerun(words, "")
  end
end

function mirage.pre_submit(options, offset)
  if offset ~= 0 or options["type"] ~= "sbatch" or why then
    return
  end
  quiet = options["parsable"] == "set" or (tonumber(options["quiet"]) or 0) > 0
  local script, from_stdin = options["argv"][1], false
  if not script and not options["wrap"] then
    from_stdin = true
    script = stdin_is_a_file() and "/proc/self/fd/0" or nil
  end
  if not asks(options["comment"] or "") and not script_asks(script and read(script, HEAD_BYTES) or "") then
    return
  end
  local words = words_of("self")
  if from_stdin and not script then
    if not within_wrapper(words) then
      why = "the script came through a pipe, where no hook can read the request in time"
    end
    return
  end
  rerun(words, from_stdin and "rewind" or "")
end

-- Tells the user that the job is no chain: nobody submits a next link for the job.
function mirage.post_submit(offset, job_id)
  if why and offset == 0 and not quiet then
    local line = "mirage: job %d is no chain: %s. The job runs once, and Mirage does not follow it\n"
    io.stderr:write(string.format(line, job_id, why))
  end
end

return mirage
