-- mirage_submit.lua: lets slurmctld refuse a bad chain before it takes the job (Lua 5.1 to 5.4).
--
-- The script reads a job's comment, and does nothing more if the comment has no `mirage:`. It runs
-- under slurmctld's locks: it does no input or output, changes nothing of the job, and keeps nothing.
--
-- It refuses nobody a chain's id. Anybody can read an id in the queue, so the first use proves nothing.
-- The id itself says whose it is, and the service checks that (mirage/domain/chain.py, is_made_for).
local MAX_LINKS = 1000
local ID = string.rep("[0-9a-hjkmnp-tv-z]", 20)
local FLAG = "never-overlap"
local NAMES = {}
for name in string.gmatch(
  "chain checkpoint continue lead max-overlap min-runtime mode never-overlap overlap-price policy"
    .. " presubmit returns service style total until-file",
  "%S+"
) do
  NAMES[name] = true
end

-- Returns the items of a request by name; nil if the word is the user's own.
local function request_in(word)
  local text = string.match(word, "^mirage:(.+)$")
  local name, equals = string.match(text or "", "^([%l-]*)(=?)")
  if not NAMES[name] or (equals == "") ~= (name == FLAG) then
    return nil
  end
  local items = {}
  for item, value in string.gmatch(text, "([%l-]+)=?([^,]*)") do
    items[item] = value
  end
  return items
end

local function bad_links(text)
  local links = string.find(text, "^%d+$") and #text < 9 and tonumber(text)
  return not links or links < 1 or links > MAX_LINKS
end

local function mark_in(word)
  return string.match(word, "^mirage:(" .. ID .. "):(%d+)$")
end

local function refusal_of(word, is_array)
  local id, link = mark_in(word)
  local request = not id and request_in(word)
  if not id and not request then
    return nil
  elseif is_array then
    return "a job array cannot be a chain"
  elseif bad_links(id and link or request.chain or "1") then
    return string.format("a chain has 1 to %d links", MAX_LINKS)
  end
  return nil
end

-- Iterates over the words of a comment; over none if the comment has no `mirage:`, as most have not.
local function words_in(comment)
  if type(comment) ~= "string" or not string.find(comment, "mirage:", 1, true) then
    return function() end
  end
  return string.gmatch(comment, "%S+")
end

local mirage = {}

-- Returns the sentence that refuses a new job, or nil.
function mirage.submit(job)
  for word in words_in(job.comment) do
    local refusal = refusal_of(word, job.array_inx ~= nil)
    if refusal then
      return refusal
    end
  end
  return nil
end

-- The job_submit.lua of older releases calls this.
function mirage.modify()
  return false
end

return mirage
