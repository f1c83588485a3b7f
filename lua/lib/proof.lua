-- proof: whether the owner of a run is dead for certain: its incarnation is recorded dead, or the two looks of the sweep are
-- complete. The one proof that abort, the sweep and the doctor's repair ask for.

-- How it is known, as records tell it; nil while it is not. `pulse` is read where the caller has none.
local function proof_of_death(id, rec, pulse)
  if is_recorded_dead(rec.inc) then
    return 'it died'
  end
  local lapsed = rec.ml and lease_left(id, rec) == 0 and suspicion_left(rec, pulse or read_pulse()) == 0
  return lapsed and 'its lease expired' or nil
end
