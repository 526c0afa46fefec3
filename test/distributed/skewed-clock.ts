// Loaded before a program to shift its clock by `CLOCK_SHIFT_MS`.
const RealDate = Date
const shiftMs = Number(process.env['CLOCK_SHIFT_MS'])

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(
      target,
      args.length === 0 ? [RealDate.now() + shiftMs] : args,
      newTarget,
    ) as Date,
  get: (target, name) =>
    name === 'now' ? () => RealDate.now() + shiftMs : (Reflect.get(target, name) as unknown),
})
