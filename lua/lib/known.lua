-- known: the records that this call has met, by their keys and as it has left them: read in one command for a batch,
-- written in one at its end. An item that comes twice in a batch meets what the first one made of it.

local TASK = Q .. 'task:'
local SLICE = 1000
local ABSENT = {}
local known, writes = {}, {}

local function in_slices(items, size, write)
  for first = 1, #items, size do
    write(unpack(items, first, math.min(first + size - 1, #items)))
  end
end

-- Every `step`th of `list` from `first` on is an id: the keys of their records.
local function task_keys(list, first, step)
  local keys, n = {}, 0
  for at = first or 1, #list, step or 1 do
    n = n + 1
    keys[n] = TASK .. list[at]
  end
  return keys
end

-- Reads many records at once. Where MGET finds nothing, a key of another type may lie: `load` looks.
local function prefetch(keys)
  for first = 1, #keys, SLICE do
    local found = call('MGET', unpack(keys, first, math.min(first + SLICE - 1, #keys)))
    for i = 1, #found do
      local key = keys[first + i - 1]
      if found[i] and known[key] == nil then
        known[key] = found[i]
      end
    end
  end
end

-- True when none of the keys is there; then `load` knows it too.
local function none_is_there(keys)
  local found = 0
  in_slices(keys, SLICE, function(...) found = found + call('EXISTS', ...) end)
  for i = 1, found == 0 and #keys or 0 do
    known[keys[i]] = ABSENT
  end
  return found == 0
end

-- The record is written at the end of the call.
local function put(key, raw)
  known[key] = raw
  local n = #writes
  writes[n + 1] = key
  writes[n + 2] = raw
end

-- The task has no record any longer.
local function forget(id)
  known[TASK .. id] = ABSENT
end

-- Comes before keys are deleted, for a record may be written and its task discarded in one call.
local function write_records()
  in_slices(writes, SLICE, function(...) call('MSET', ...) end)
  writes = {}
end

local GONE_MS = 60000

-- Ids discarded or deleted a short while ago, so that the repeat of a lost reply gets a true answer.
local function is_gone(id)
  local at = call('ZSCORE', Q .. 'gone', id)
  return at and now - tonumber(at) < GONE_MS or false
end
