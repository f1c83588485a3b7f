-- ledger: what one call has decided, written in few commands at its end: indexes, totals, one event entry
-- per 50 transitions, the wake marker, and last, by pcall, what is published.

local MOVES_PER_ENTRY = 50
local EVENTS_KEPT = 100000

local ledger = { moves = {}, totals = {}, zadd = {}, zrem = {}, del = {}, publish = {}, gone = {}, wake = false }

local function count(name, by)
  ledger.totals[name] = (ledger.totals[name] or 0) + (by or 1)
end

-- Notes one event of a task: a transition (`from` and `to` differ) or a mark on it.
local function event(id, from, to, attempt, why)
  ledger.moves[#ledger.moves + 1] = { id, from, to, attempt, why or '' }
end

local function index(name, score, id)
  local adds = ledger.zadd[name] or {}
  ledger.zadd[name] = adds
  adds[#adds + 1] = int(score)
  adds[#adds + 1] = id
end

local function unindex(name, id)
  local rems = ledger.zrem[name] or {}
  ledger.zrem[name] = rems
  rems[#rems + 1] = id
end

local function delete_key(suffix)
  ledger.del[#ledger.del + 1] = Q .. suffix
end

local function publish(channel, message)
  ledger.publish[#ledger.publish + 1] = { Q .. channel, message }
end

local function in_slices(items, size, write)
  for first = 1, #items, size do
    write(unpack(items, first, math.min(first + size - 1, #items)))
  end
end

-- By pcall: a counter that holds no number must not stop a script midway.
local function add_to_total(name, by)
  local sum = pcall_redis('HINCRBY', Q .. 'totals', name, by)
  return type(sum) == 'number' and sum or by
end

local function write_events()
  local total = #ledger.moves
  if total == 0 then
    return
  end
  local number = add_to_total('transitions', total)
  for first = 1, total, MOVES_PER_ENTRY do
    local last = math.min(first + MOVES_PER_ENTRY - 1, total)
    local packed = cmsgpack.pack({ unpack(ledger.moves, first, last) })
    call('XADD', Q .. 'events', 'MAXLEN', '~', EVENTS_KEPT, '*', 'at', int(now), 'to', int(number - total + last),
      'e', packed)
  end
end

-- Writes everything noted. Nothing may be noted after it.
local function commit()
  for name, items in pairs(ledger.zrem) do
    in_slices(items, 1000, function(...) call('ZREM', Q .. name, ...) end)
  end
  for name, items in pairs(ledger.zadd) do
    in_slices(items, 1000, function(...) call('ZADD', Q .. name, ...) end)
  end
  in_slices(ledger.del, 1000, function(...) call('UNLINK', ...) end)
  for name, by in pairs(ledger.totals) do
    add_to_total(name, by)
  end
  write_events()
  if ledger.wake then
    call('ZADD', Q .. 'wake', 0, 'w')
  end
  for _, message in ipairs(ledger.publish) do
    pcall_redis('PUBLISH', message[1], message[2])
  end
end
