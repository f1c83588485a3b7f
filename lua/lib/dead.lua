-- dead: incarnations that a later one of their name has proved dead. What is remembered of their last claim says so, and
-- refuses every later one.

-- What is remembered of an incarnation's last claim: nil when there is nothing, false when it cannot be read.
local function claim_memory(inc)
  local packed = pcall_redis('GET', Q .. 'claim:' .. inc)
  if not packed then
    return nil
  end
  local readable, memory = pcall(cmsgpack.unpack, type(packed) == 'string' and packed or '')
  return readable and type(memory) == 'table' and type(memory.n) == 'number' and type(memory.ids) == 'string' and memory
end

local function is_recorded_dead(inc)
  local memory = claim_memory(inc)
  return memory and memory.dead ~= nil or false
end
