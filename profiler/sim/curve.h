// A function given by points: linear between them, and beyond the last one as between the last two.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace serval::sim {

class Curve {
 public:
  struct Point {
    double x, y;
  };

  // At least one point, x ascending. Below the first point's x the function is the first point's y.
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}

  double operator()(double x) const {
    if (points_.size() == 1 || x <= points_.front().x) return points_.front().y;
    size_t upper = 1;
    while (upper + 1 < points_.size() && points_[upper].x < x) ++upper;
    const Point& a = points_[upper - 1];
    const Point& b = points_[upper];
    return a.y + (x - a.x) * (b.y - a.y) / (b.x - a.x);
  }

 private:
  std::vector<Point> points_;
};

}  // namespace serval::sim
