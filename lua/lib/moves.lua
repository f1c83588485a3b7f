-- moves: the events of a call: what became of which task, one entry of `Q:events` per 50 of them.

-- By pcall: a counter that holds no number must not stop a script midway.
local function add_to_total(name, by)
  local sum = pcall_redis('HINCRBY', Q .. 'totals', name, by)
  return type(sum) == 'number' and sum or by
end

local event, events_of, write_events

do
local MOVES_PER_ENTRY, EVENTS_KEPT = 50, 100000
local groups, moves = {}, 0
local ids, from, to, attempt, why

-- Notes one event of a task: a transition (`from` and `to` differ) or a mark on it. Neighbours that tell the same
-- make one group.
function event(id, from_state, to_state, of_attempt, because)
  because = because or ''
  if from_state ~= from or to_state ~= to or of_attempt ~= attempt or because ~= why then
    from, to, attempt, why, ids = from_state, to_state, of_attempt, because, {}
    groups[#groups + 1] = { from, to, attempt, why, ids }
  end
  ids[#ids + 1] = id
  moves = moves + 1
end

-- Notes the same event of many tasks.
function events_of(tasks, from_state, to_state, of_attempt, because)
  groups[#groups + 1] = { from_state, to_state, of_attempt, because or '', tasks }
  moves = moves + #tasks
  from = nil
end

-- Rows of {from, to, attempt, why, ids joined by line feeds}, 50 ids an entry at most.
function write_events()
  if moves == 0 then
    return
  end
  local number = add_to_total('transitions', moves) - moves
  local rows, room = {}, MOVES_PER_ENTRY
  local function write()
    number = number + MOVES_PER_ENTRY - room
    call('XADD', Q .. 'events', 'MAXLEN', '~', EVENTS_KEPT, '*', 'at', int(now), 'to', int(number), 'e',
      cmsgpack.pack(rows))
    rows, room = {}, MOVES_PER_ENTRY
  end
  for _, group in ipairs(groups) do
    local first, all = 1, group[5]
    while first <= #all do
      local last = math.min(first + room - 1, #all)
      rows[#rows + 1] = { group[1], group[2], group[3], group[4], table.concat(all, '\n', first, last) }
      room = room - (last - first + 1)
      first = last + 1
      if room == 0 then
        write()
      end
    end
  end
  if #rows > 0 then
    write()
  end
end
end
