-- look: what a sweep makes of one run: whether its owner lives, and whether it has had its time.

local pulse, seen, saw, look_again, look

do
seen = { looked = 0, suspected = 0, reclaimed = 0, ended = 0, stopped = 0, promoted = 0, odd = 0 }

function saw(what)
  seen[what] = seen[what] + 1
end

function look_again(id, at)
  index('running', math.max(now + 1, math.min(at, now + T + B)), id)
end

-- Its owner did not obey in time, or could not.
local function end_past_hard_end(id, rec)
  local message = 'the run did not end within its grace (' .. rec.sp.c .. ')'
  rec.rc = { at = now, by = 'sweep', why = 'past its hard end' }
  end_stopped(id, rec, { kind = 'lease_expired', message = message })
  saw('ended')
end

local function judge_missing_lease(id, rec)
  if not rec.ml then
    rec.ml = pulse.watch
    saw('suspected')
  end
  local proof = proof_of_death(id, rec, pulse)
  if proof then
    saw('reclaimed')
    return reconcile(id, rec, 'sweep', proof)
  end
  local left = suspicion_left(rec, pulse)
  save(id, rec)
  look_again(id, math.min(now + math.min(left, B), rec.sp and rec.sp.he or now + B))
end

function look(id, rec)
  local changed = allow_for_gap(rec, pulse.gap_at)
  if stop_if_due(id, rec) then
    saw('stopped')
    changed = true
  end
  local left = lease_left(id, rec)
  if rec.sp and now >= rec.sp.he and not (left > 0 and is_unkillable(rec)) then
    return end_past_hard_end(id, rec)
  end
  if left == 0 then
    return judge_missing_lease(id, rec)
  end
  changed = note_silence(id, rec) or changed
  if rec.ml then
    rec.ml = nil
    changed = true
  end
  if changed then
    save(id, rec)
  end
  local at = next_look(rec)
  if rec.sp and at <= now then
    -- Its hard end is suspended: until the word that its processes are not ended grows old.
    at = rec.uk[1] + T + B
  end
  look_again(id, math.min(now + left, at))
end
end
