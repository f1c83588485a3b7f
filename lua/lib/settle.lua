-- settle: counts what was lost. Whoever meets a row that names no task drops it and counts it as dropped; whether a task was
-- lost with its record, or the row was never one's own, the sums alone say. So the next sweep counts as gone what is missing
-- in them, of rows that were dropped since: each lost task once, whoever met it first.

-- Returns how many were dropped up to now, for the next time.
local function settle(settled)
  local dropped = tonumber(call('HGET', Q .. 'totals', 'dropped') or 0) or 0
  local since = dropped - (settled or 0)
  local lost = since > 0 and math.min(since, unaccounted()) or 0
  if lost > 0 then
    count('gone', lost)
  end
  return dropped
end
