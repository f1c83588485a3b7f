-- stop: a request that a run ends, and the moment past which nobody waits for it.

local request_stop, stop_if_due, is_unkillable, allow_for_gap

do
local function hard_end(at, grace)
  return at + grace + T + B
end

-- Records a stop on a running record. The first cause decides, but an abort outranks all; a later stop may
-- shorten the hard end, never extend it. The caller saves the record.
function request_stop(id, rec, cause, grace, by, reason)
  local ends = hard_end(now, grace)
  local was = rec.sp
  if was and was.he < ends then
    ends, grace = was.he, math.max(0, was.he - T - B - now)
  end
  if not was or (cause == 'abort' and was.c ~= 'abort') then
    rec.sp = { c = cause, at = now, g = grace, he = ends, by = by, rs = reason, ec = was and was.c or nil }
    mark_key(id, rec)
    event(id, rec.st, cause == 'abort' and 'aborting' or rec.st, rec.n, cause)
    publish('stops', id .. ' ' .. rec.run)
  elseif ends < was.he then
    was.he, was.g = ends, math.max(0, ends - T - B - was.at)
    publish('stops', id .. ' ' .. rec.run)
  end
end

-- Records the stop of a run whose bound has passed. True if it did.
function stop_if_due(id, rec)
  local cause = passed_bound(rec)
  if cause then
    request_stop(id, rec, cause, policy_of(rec)[8], 'leasehold')
  end
  return cause ~= nil
end

-- Has a living worker said of late that the system does not end the processes of the run? Then nobody may take it for
-- ended: its hard end is suspended.
function is_unkillable(rec)
  return rec.uk ~= nil and now - rec.uk[1] < T + B
end

-- Moves the hard end on when the reaper or Redis was away after the stop. True if it moved.
function allow_for_gap(rec, gap_at)
  local sp = rec.sp
  if sp and gap_at > sp.at then
    local ends = hard_end(gap_at, sp.g)
    if ends > sp.he then
      sp.he = ends
      return true
    end
  end
  return false
end
end
