package functions;

import java.time.LocalDateTime;
import java.util.*;
import org.apache.flink.table.annotation.*;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;

/** For each row, the sum of a column over the time before it, when the watermark reaches it. */
@DataTypeHint("ROW<total BIGINT>")
public class CustomWindow extends ProcessTableFunction<Row> {
  public void eval(
      Context ctx,
      @StateHint MapView<Long, List<Long>> amounts,
      @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input,
      String column,
      Integer sizeMs)
      throws Exception {
    TimeContext<Long> time = ctx.timeContext(Long.class);
    Long watermark = time.currentWatermark();
    if (time.time() == null || (watermark != null && time.time() <= watermark)) {
      return;
    }
    List<Long> same = amounts.get(time.time());
    same = same == null ? new ArrayList<>() : new ArrayList<>(same);
    Object amount = input.getField(column);
    same.add(amount == null ? 0L : ((Number) amount).longValue());
    amounts.put(time.time(), same);
    time.registerOnTime("at " + sizeMs + " " + time.time(), time.time());
    time.registerOnTime("end " + sizeMs + " " + time.time(), time.time() + sizeMs + 1);
  }

  public void onTimer(OnTimerContext ctx, MapView<Long, List<Long>> amounts) throws Exception {
    String[] words = ctx.currentTimer().split(" ");
    long size = Long.parseLong(words[1]);
    long now = Long.parseLong(words[2]);
    if (words[0].equals("end")) {
      amounts.remove(now);
      return;
    }
    long total = 0;
    for (Map.Entry<Long, List<Long>> each : amounts.entries()) {
      if (now - size <= each.getKey() && each.getKey() <= now) {
        for (Long amount : each.getValue()) {
          total += amount;
        }
      }
    }
    for (Long ignored : amounts.get(now)) {
      collect(Row.of(total));
    }
  }
}
