-- late: what a sweep does about deadlines, and about lanes.

local end_what_is_late, look_after_lanes

do
local LANES_A_SWEEP = 16

-- Ends what is past its deadline and not running; asks runs to stop. A row stays as long as its task lives, and is looked
-- at again when the run should have ended. Returns how many rows it looked at.
function end_what_is_late(limit)
  local due = call('ZRANGE', Q .. 'deadlines', '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
  prefetch(task_keys(due))
  for _, id in ipairs(due) do
    local rec = load(id)
    if rec == false then
      index('deadlines', now + T, id)
    elseif not rec or TERMINAL[rec.st] or not rec.dl then
      unindex('deadlines', id)
      saw('odd')
    elseif rec.dl > now then
      index('deadlines', rec.dl, id)
    elseif rec.st ~= 'running' and rec.st ~= 'aborting' then
      end_late(id, rec)
      saw('ended')
    else
      if stop_if_due(id, rec) then
        saw('stopped')
        save(id, rec)
        look_again(id, next_look(rec))
      end
      index('deadlines', math.max(rec.sp and rec.sp.he or 0, now) + B, id)
    end
  end
  return #due
end

-- Lets go whose turn it is in some lanes, one after another from sweep to sweep: a lane in which nothing is right any
-- more (its first task was lost) goes on by itself. Returns where the next sweep begins.
function look_after_lanes()
  local cursor = call('HGET', Q .. 'pulse', 'lanes') or '0'
  local page = pcall_redis('HSCAN', Q .. 'lanes', whole(cursor) and cursor or '0', 'COUNT', LANES_A_SWEEP)
  if page.err then
    return '0'
  end
  for i = 1, #page[2], 2 do
    admit(page[2][i])
    forget_lane(page[2][i])
  end
  return page[1]
end
end
