-- notes: puts what a call decides into the ledger, item by item.

local GONE_MS = 60000

-- The keys of the records of these ids.
local function task_keys(list)
  local keys = {}
  for i = 1, #list do
    keys[i] = TASK .. list[i]
  end
  return keys
end

-- The task has no record any longer.
local function forget(id)
  known[TASK .. id] = ABSENT
end

-- Ids discarded or deleted a short while ago, so that the repeat of a lost reply gets a true answer.
local function is_gone(id)
  local at = call('ZSCORE', Q .. 'gone', id)
  return at and now - tonumber(at) < GONE_MS or false
end

local function count(name, by)
  ledger.totals[name] = (ledger.totals[name] or 0) + (by or 1)
end

-- Notes one event of a task: a transition (`from` and `to` differ) or a mark on it. Neighbours that tell the same
-- make one group.
local function event(id, from, to, attempt, why)
  local groups = ledger.groups
  local last = groups[#groups]
  if not last or last[1] ~= from or last[2] ~= to or last[3] ~= attempt or last[4] ~= (why or '') then
    last = { from, to, attempt, why or '', {} }
    groups[#groups + 1] = last
  end
  last[5][#last[5] + 1] = id
end

local function index(name, score, id)
  local rows = ledger.zadd[name] or {}
  ledger.zadd[name] = rows
  rows[#rows + 1] = int(score)
  rows[#rows + 1] = id
end

local function unindex(name, id)
  local rows = ledger.zrem[name] or {}
  ledger.zrem[name] = rows
  rows[#rows + 1] = id
end

local function delete_key(suffix)
  ledger.del[#ledger.del + 1] = Q .. suffix
end

local function publish(channel, message)
  ledger.publish[#ledger.publish + 1] = { Q .. channel, message }
end
