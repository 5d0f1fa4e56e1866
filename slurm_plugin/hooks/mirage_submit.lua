-- mirage_submit.lua: lets slurmctld refuse a bad chain before it takes the job (Lua 5.1 to 5.4).
--
-- The script reads a job's comment, and does nothing more if the comment has no `mirage:`. It runs
-- under slurmctld's locks: it does no input or output, changes nothing of the job, and keeps only the
-- owners of recent chains. It does not read `slurm.jobs`, which in 22.05 may hold jobs that are gone.
local MAX_LINKS = 1000
local ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
local ID = string.rep("[0-9a-hjkmnp-tv-z]", 20)
local TIME_LETTERS = 7 -- a chain's id begins with the second in which it was made
local FLAG = "never-overlap"
local NAMES = {}
for name in string.gmatch(
  "chain checkpoint continue lead max-overlap min-runtime mode never-overlap overlap-price policy"
    .. " presubmit service style total until-file",
  "%S+"
) do
  NAMES[name] = true
end

-- Whose a chain is: its id is a secret until its first job is here, so whoever brings it first
-- owns it. An id that is older than this table proves nothing, and is let pass.
local since = os.time()
local owners, older, count = {}, {}, 0
local MOST = 20000

local function made_at(id)
  local seconds = 0
  for i = 1, TIME_LETTERS do
    seconds = seconds * 32 + string.find(ID_LETTERS, string.sub(id, i, i), 1, true) - 1
  end
  return seconds
end

local function owner_of(id)
  return owners[id] or older[id]
end

local function remember(id, user)
  if made_at(id) < since or owner_of(id) then
    return
  end
  if count >= MOST then
    owners, older, count = {}, owners, 0
  end
  owners[id] = user
  count = count + 1
end

-- The items of a request by name; nil where the word is no request but the user's own.
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

local function refusal_of(word, user, is_array)
  local id, link = mark_in(word)
  local request = not id and request_in(word)
  if not id and not request then
    return nil
  elseif is_array then
    return "a job array cannot be a chain"
  elseif bad_links(id and link or request.chain or "1") then
    return string.format("a chain has 1 to %d links", MAX_LINKS)
  elseif not id then
    return nil
  elseif (owner_of(id) or user) ~= user then
    return "the comment names a chain of another user"
  end
  remember(id, user)
  return nil
end

-- The words of a comment that may concern us: most comments have none.
local function words_in(comment)
  if type(comment) ~= "string" or not string.find(comment, "mirage:", 1, true) then
    return function() end
  end
  return string.gmatch(comment, "%S+")
end

local mirage = {}

-- Returns the sentence that refuses a new job, or nil.
function mirage.submit(job, submit_uid)
  local comment = job.comment
  if comment == nil then
    return nil
  end
  local user = job.user_id == slurm.NO_VAL and submit_uid or job.user_id
  for word in words_in(comment) do
    local refusal = refusal_of(word, user, job.array_inx ~= nil)
    if refusal then
      return refusal
    end
  end
  return nil
end

-- Whether a job's new comment would make it a link of somebody else's chain.
function mirage.modify(job, record)
  for word in words_in(job.comment) do
    local id = mark_in(word)
    if id and (owner_of(id) or record.user_id) ~= record.user_id then
      return true
    end
  end
  return false
end

return mirage
