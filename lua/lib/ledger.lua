-- ledger: what one call has decided, written in few commands at its end: records, indexes, totals, one event entry
-- per 50 transitions, the wake marker, and last, by pcall, what is published.
--
-- zadd: rows by index, score and member in turns, both text; zrem: members by index; groups: events, each { from, to,
-- attempt, why, ids } of tasks of which the same is told.

local ledger = { totals = {}, zadd = {}, zrem = {}, del = {}, publish = {}, gone = {}, groups = {}, wake = false }
local MOVES_PER_ENTRY, EVENTS_KEPT = 50, '100000'
-- `Q:running` comes and goes with every batch. Redis walks a small sorted set from its start for every row that it
-- adds or removes, 1.9 us a row in a batch; one that has held a long row is a tree until it is empty, 0.6 us.
local LONG_ROW = '-----------------------------------------------------------------'
local MANY_ROWS = 8

-- By pcall: a counter that holds no number must not stop a script midway.
local function add_to_total(name, by)
  local sum = pcall_redis('HINCRBY', Q .. 'totals', name, by)
  return type(sum) == 'number' and sum or by
end

-- One entry of `Q:events` per 50 moves: rows of {from, to, attempt, why, ids joined by line feeds}.
local function write_events()
  local groups, moves = ledger.groups, 0
  for i = 1, #groups do
    moves = moves + #groups[i][5]
  end
  if moves == 0 then
    return
  end
  local number = add_to_total('transitions', moves) - moves
  local at, first, rows, room = 1, 1, {}, MOVES_PER_ENTRY
  while at <= #groups do
    local group = groups[at]
    local ids = group[5]
    local last = math.min(first + room - 1, #ids)
    rows[#rows + 1] = { group[1], group[2], group[3], group[4], table.concat(ids, '\n', first, last) }
    room = room - (last - first + 1)
    first = last + 1
    if first > #ids then
      at, first = at + 1, 1
    end
    if room == 0 or at > #groups then
      number = number + MOVES_PER_ENTRY - room
      call('XADD', Q .. 'events', 'MAXLEN', '~', EVENTS_KEPT, '*', 'at', int(now), 'to', int(number), 'e',
        cmsgpack.pack(rows))
      rows, room = {}, MOVES_PER_ENTRY
    end
  end
end

-- Writes everything noted. Nothing may be noted after it. Records come before keys are deleted, for one may be written and
-- its task discarded in one call.
local function commit()
  for first = 1, #writes, SLICE do
    call('MSET', unpack(writes, first, math.min(first + SLICE - 1, #writes)))
  end
  for name, rows in pairs(ledger.zrem) do
    for first = 1, #rows, SLICE do
      call('ZREM', Q .. name, unpack(rows, first, math.min(first + SLICE - 1, #rows)))
    end
  end
  for name, rows in pairs(ledger.zadd) do
    local tree = name == 'running' and #rows / 2 >= MANY_ROWS
    if tree then
      call('ZADD', Q .. name, '0', LONG_ROW)
    end
    for first = 1, #rows, SLICE do
      call('ZADD', Q .. name, unpack(rows, first, math.min(first + SLICE - 1, #rows)))
    end
    if tree then
      call('ZREM', Q .. name, LONG_ROW)
    end
  end
  for first = 1, #ledger.del, SLICE do
    call('UNLINK', unpack(ledger.del, first, math.min(first + SLICE - 1, #ledger.del)))
  end
  for name, by in pairs(ledger.totals) do
    add_to_total(name, by)
  end
  write_events()
  if ledger.wake then
    call('ZADD', Q .. 'wake', '0', 'w')
  end
  for i = 1, #ledger.publish do
    pcall_redis('PUBLISH', ledger.publish[i][1], ledger.publish[i][2])
  end
end
