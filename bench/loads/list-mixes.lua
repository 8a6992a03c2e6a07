-- First pages: no filter and each status, with 5, 20, 50 and 100 animals, in turn.
local requests = require("requests")

function prepare()
  local pages = {}
  for _, filter in ipairs({ "", "&status=available", "&status=pending", "&status=sold" }) do
    for _, limit in ipairs({ 5, 20, 50, 100 }) do
      pages[#pages + 1] = requests.list("limit=" .. limit .. filter)
    end
  end
  local turn = 0
  return function()
    turn = turn % #pages + 1
    return pages[turn]()
  end
end
