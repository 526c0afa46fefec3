/** What a piece costs at a stationery shop, in euros. */
const prices = new Map([
  ['eraser', 0.95],
  ['folder', 2.4],
  ['marker', 1.85],
  ['notebook', 3.5],
  ['pencil', 0.65],
  ['ruler', 1.2],
  ['stapler', 7.9],
])

/** The tool of the agent: the price of one piece of a product, or why there is none. */
export function lookUpPrice(product: string): string {
  const price = prices.get(product.trim().toLowerCase())
  if (price !== undefined) return price.toFixed(2)
  return `Error: there is no product "${product}". There are: ${[...prices.keys()].join(', ')}.`
}
