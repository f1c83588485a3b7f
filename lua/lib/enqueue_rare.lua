-- enqueue_rare: what few tasks need: a policy of their own, a due time, a body too large for the record, an id that is
-- known.

local function policy_is_sound(fixed)
  return policy_in(fixed) ~= false
end

-- What is too large for the record gets a key of its own.
local function place_body(id, rec)
  local begins = body_begins(rec.fixed)
  if #rec.fixed - begins + 1 > INLINE then
    call('SET', Q .. 'body:' .. id, string.sub(rec.fixed, begins))
    rec.fixed = struct.pack('>H', begins - 3) .. string.sub(rec.fixed, 3, begins - 1)
  end
end

local function accept_rare(id, level, fixed, due)
  local rec = new_record(level, fixed)
  if due > now then
    place_scheduled(id, rec, due)
  else
    place_queued(id, rec, level)
  end
  place_body(id, rec)
  save(id, rec)
  return rec.st
end

-- What is there already under an id.
local function known_as(id, fixed)
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  end
  return digest_of(rec.fixed) == digest_of(fixed) and 'exists' or 'conflict', rec.st
end
