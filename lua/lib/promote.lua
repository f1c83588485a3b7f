-- promote: what is due leaves the schedule for its ready stream. Used by `claim` and `sweep`.

local promote

do
local LATER_MS = 1000

-- Looks at up to `limit` due rows; returns how many it looked at, promoted, and found odd. A record that this release
-- cannot read keeps its row, a second further on, so that no page of them starves the rest.
function promote(limit)
  local due = call('ZRANGE', Q .. 'scheduled', '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  local promoted = 0
  prefetch(task_keys(due))
  for _, id in ipairs(due) do
    local rec = load(id)
    if rec == false then
      call('ZADD', Q .. 'scheduled', int(now + LATER_MS), id)
    else
      call('ZREM', Q .. 'scheduled', id)
      if rec and rec.st == 'scheduled' then
        place_ready(id, rec, rec.lv)
        save(id, rec)
        event(id, 'scheduled', rec.st, rec.n, 'due')
        promoted = promoted + 1
      else
        event(id, 'scheduled', '', 0, 'dropped: no record is scheduled')
        count('dropped')
      end
    end
  end
  return #due, promoted, #due - promoted
end
end
