-- beat_rare: beats of runs that are not plain: they stop, lost their task, or are renewed by what the record says.

-- Past its hard end a run is renewed no more, but for a gap that the stop could not know of.
local function may_renew(rec)
  if now < rec.sp.he or is_unkillable(rec) then
    return true
  end
  return allow_for_gap(rec, last_gap_at()) and now < rec.sp.he
end

local function renew(id, rec)
  local changed = rec.ml ~= nil
  rec.ml = nil
  changed = stop_if_due(id, rec) or changed
  changed = note_silence(id, rec) or changed
  local sp = rec.sp
  if not sp then
    lease(id, rec, T)
  else
    local ends = sp.he
    if may_renew(rec) then
      lease(id, rec, is_unkillable(rec) and T or math.max(1, math.min(T, sp.he - now)))
    end
    changed = changed or sp.he ~= ends
  end
  if changed then
    save(id, rec)
  end
  if sp then
    return 'stop', sp.c, sp.he, sp.by or ''
  end
  return 'ok', '', 0, ''
end

local function beat(id, run)
  local rec = load(id)
  if rec == false then
    return 'corrupt', '', 0, ''
  elseif not rec then
    return is_gone(id) and 'gone' or 'lost', '', 0, ''
  elseif owns(rec, run, inc) then
    return renew(id, rec)
  end
  local state = ended_as(rec, run, inc)
  return state and 'ended' or 'lost', state or '', 0, ''
end
