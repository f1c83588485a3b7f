-- ledger: what one call has decided, written in few commands at its end: records, indexes, totals, one event entry
-- per 50 transitions, the wake marker, and last, by pcall, what is published.

local ledger = { totals = {}, zadd = {}, zrem = {}, del = {}, publish = {}, gone = {}, wake = false }

local function count(name, by)
  ledger.totals[name] = (ledger.totals[name] or 0) + (by or 1)
end

-- Rows to be added to a sorted set: score and member in turns, both text.
local function rows_of(name)
  local rows = ledger.zadd[name] or {}
  ledger.zadd[name] = rows
  return rows
end

local function add_all(name, added)
  local rows = rows_of(name)
  if #rows == 0 then
    ledger.zadd[name] = added
    return
  end
  for i = 1, #added do
    rows[#rows + 1] = added[i]
  end
end

-- Members to be removed from a sorted set.
local function leavers_of(name)
  local rows = ledger.zrem[name] or {}
  ledger.zrem[name] = rows
  return rows
end

local function index(name, score, id)
  local rows = rows_of(name)
  rows[#rows + 1] = int(score)
  rows[#rows + 1] = id
end

local function unindex(name, id)
  local rows = leavers_of(name)
  rows[#rows + 1] = id
end

local function delete_key(suffix)
  ledger.del[#ledger.del + 1] = Q .. suffix
end

local function publish(channel, message)
  ledger.publish[#ledger.publish + 1] = { Q .. channel, message }
end

-- `Q:running` comes and goes with every batch. Redis walks a small sorted set from its start for every row that it
-- adds or removes, 1.9 us a row in a batch; one that has held a long row is a tree until it is empty, 0.6 us.
local LONG_ROW, MANY_ROWS = string.rep('-', 65), 8

local function add_rows(name, rows)
  local key = Q .. name
  local tree = name == 'running' and #rows / 2 >= MANY_ROWS
  if tree then
    call('ZADD', key, 0, LONG_ROW)
  end
  in_slices(rows, SLICE, function(...) call('ZADD', key, ...) end)
  if tree then
    call('ZREM', key, LONG_ROW)
  end
end

-- Writes everything noted. Nothing may be noted after it.
local function commit()
  write_records()
  for name, rows in pairs(ledger.zrem) do
    in_slices(rows, SLICE, function(...) call('ZREM', Q .. name, ...) end)
  end
  for name, rows in pairs(ledger.zadd) do
    add_rows(name, rows)
  end
  in_slices(ledger.del, SLICE, function(...) call('UNLINK', ...) end)
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
