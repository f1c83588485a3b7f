-- reclaim: what becomes of a task whose worker died under it. Used by `sweep`; `claim` asks for the last chance.

-- Has it lost as many workers as it may, at least one?
local function on_last_chance(rec)
  return rec.c > 0 and rec.c >= policy_of(rec)[5]
end

-- The owner is dead: two looks found no lease. A bound that had passed, or an abort, decides instead.
local function reclaim(id, rec)
  count('reclaimed')
  if rec.sp or past_run_timeout(rec) then
    local message = 'the run passed its bound and its worker was gone'
    return end_stopped(id, rec, { kind = 'lease_expired', cause = 'run_timeout', message = message })
  end
  rec.c = rec.c + 1
  local p = policy_of(rec)
  local message = 'the lease of worker ' .. rec.w .. ' expired'
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
