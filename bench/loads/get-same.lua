-- One animal, over and over.
local requests = require("requests")

function prepare()
  return requests.get(50000)
end
