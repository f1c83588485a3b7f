-- known: the records that this call has met, by their keys and as it has left them: read in one command for a batch,
-- written in one at its end. An item that comes twice in a batch meets what the first one made of it.

local TASK = Q .. 'task:'
-- Rows of one command: Lua hands over 8,000 at most.
local SLICE = 1000
local ABSENT = {}
local known, writes = {}, {}

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

-- The record is written at the end of the call.
local function put(key, raw)
  known[key] = raw
  local n = #writes
  writes[n + 1], writes[n + 2] = key, raw
end
