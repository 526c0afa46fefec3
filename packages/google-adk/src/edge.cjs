// Edge runtimes and browsers, which lack modules of Node.js, import this instead of the package. It is CommonJS, so that an import of
// any name reaches the error below and is not refused as a missing export.
module.exports = refuse()

function refuse() {
  throw new Error(
    '@osmosis/google-adk needs Node.js, and this is an edge runtime or a browser. Run this code in Node.js (Next.js: export const runtime = "nodejs"), or import @osmosis/google-adk only where rollouts run and pass the model to the agent as a parameter.',
  )
}
