/** Decorates a piece of the report. `styleText` of `node:util` is one. */
export type ReportStyle = (
  format: 'bold' | 'dim' | 'green' | 'yellow' | 'red',
  text: string,
) => string
