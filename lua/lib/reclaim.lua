-- reclaim: what becomes of a task whose owner is proven dead. The one routine that abort, sweep, a starting worker and the
-- doctor's repair share. It judges running and aborting tasks only; the caller has the proof.

-- Has it lost as many workers as it may, at least one?
local function on_last_chance(rec)
  return rec.c > 0 and rec.c >= policy_of(rec)[5]
end

-- The owner is dead, as `by` has found by `proof`. A bound that had passed, or an abort, decides instead.
local function reconcile(id, rec, by, proof)
  count('reclaimed')
  rec.rc = { at = now, by = by, why = proof }
  local bound = passed_bound(rec)
  if rec.sp or bound then
    local message = 'the run passed its bound and its worker was gone'
    return end_stopped(id, rec, { kind = 'lease_expired', cause = bound, message = message })
  end
  rec.c = rec.c + 1
  local p = policy_of(rec)
  local message = 'worker ' .. rec.w .. ' is gone: ' .. proof
  if p[6] == 0 then
    return end_failed(id, rec, { kind = 'lease_expired', message = message .. '; the task must not be started twice' })
  end
  if rec.c > p[5] then
    return end_failed(id, rec, { kind = 'lease_expired', message = message .. '; the task lost its worker '
      .. int(rec.c) .. ' times (max_reclaims ' .. int(p[5]) .. ')' })
  end
  note_failure(id, rec, { kind = 'lease_expired', message = message })
  again_after(id, rec, 0, 'again', 'lease_expired')
end
