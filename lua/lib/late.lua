-- late: what a sweep does about deadlines, and about times that cannot be.

local end_what_is_late, mend_impossible

do
-- The end of the year 9999, the latest that a client may say.
local LATEST_MS = '253402300799000'

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

-- Times that no deadline and no due time can have: the row is put back where its record says.
function mend_impossible(limit)
  for name, field in pairs({ deadlines = 'dl', scheduled = 'at' }) do
    for _, id in ipairs(call('ZRANGE', Q .. name, '(' .. LATEST_MS, '+inf', 'BYSCORE', 'LIMIT', 0, limit)) do
      local rec = load(id)
      if rec and rec[field] and not TERMINAL[rec.st] and (name == 'deadlines' or rec.st == name) then
        index(name, rec[field], id)
      else
        -- The row goes, or is put right, when its time has come: at the next sweep.
        index(name, now, id)
      end
      saw('odd')
    end
  end
end
end
